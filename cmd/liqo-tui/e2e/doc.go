// Package e2e tests the program from outside, as people run it: on a terminal, and in
// labs of real clusters, which testdata/lab makes.
package e2e
