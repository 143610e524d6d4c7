// Package owner creates tasks and drives them. A Creator records a new task: it completes the
// options, reserves the name, and stores secrets that only this process can read. An Owner holds
// the lock of a task's record and executes what internal/engine/decide/driver decides, with one goroutine
// for decisions (internal/engine/decide/loop) and one for each operation. An owner that ends stops no
// container; the next owner continues.
package owner
