// Package packaging builds what is published: archives, Debian and RPM packages. It has no code but that of its tests,
// which install the package on a system that is thrown away.
package packaging
