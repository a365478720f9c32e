package wire

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// Level is the version of the annotations and fields that programs write for each other. A release raises it
// if older releases would misread its data. Older releases then refuse to change its installation.
// operator.yaml of package render contains the same number.
const Level = 1

const annotationLevel = "liqo-tui.dev/level"

// InstalledLevel reads an installation's level from its operator's Deployment; 0 if the installation has no
// level, because it is older.
func InstalledLevel(d *appsv1.Deployment) int {
	level, err := strconv.Atoi(d.Annotations[annotationLevel])
	if err != nil {
		return 0
	}
	return level
}
