// Pins a release of Liqo for build/liqo.sh, which builds it from its own module,
// with its own dependencies: none of this gets into our binaries.
module github.com/liqo-tui/liqo-tui/testdata/liqo/1.2

go 1.26.0

require github.com/liqotech/liqo v1.2.0
