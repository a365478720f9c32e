// Package networking holds examples of gateway templates, each in a file.
package networking

import (
	"embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Image stands in the files for the image of liqo-gateway.
const Image = "registry.example/liqo-gateway:VERSION"

//go:embed *.yaml
var files embed.FS

// Templates are the examples, with the image of a gateway in place.
func Templates(image string) ([]*unstructured.Unstructured, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, entry := range entries {
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), Image, image)), &u.Object); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, u)
	}
	return all, nil
}
