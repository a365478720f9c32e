// Package e2e tests the program from outside, as admins use it: on a terminal, and in
// labs of real clusters that testdata/lab makes.
package e2e
