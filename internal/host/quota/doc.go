// Package quota reads how many kernel objects one user may have, and how many of them are
// used. A host with many tasks reaches these limits long before its CPU or memory is used.
//
// It only reads files below a root directory (os.DirFS("/")). internal/host/doctor reports what it
// finds, and internal/engine/act/admit admits no task for which there is no room. It changes nothing
// and never calls Podman.
package quota
