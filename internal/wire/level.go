package wire

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// Level is of what programs write for each other: annotations, and fields of the
// definitions. It is raised by a release that former ones would misread, so that they
// refuse what it has installed. operator.yaml has it, too.
const Level = 1

const annotationLevel = "liqo-tui.dev/level"

// InstalledLevel is the level of an installation by its operator's Deployment; 0 for what
// was made before there were levels.
func InstalledLevel(d *appsv1.Deployment) int {
	level, err := strconv.Atoi(d.Annotations[annotationLevel])
	if err != nil {
		return 0
	}
	return level
}
