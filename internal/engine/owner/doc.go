// Package owner drives one task: it holds the lock of the task's record and carries out what
// internal/engine/driver decides, with one goroutine for decisions (internal/engine/loop) and one for each
// operation. An owner that ends stops no container; the next owner continues. internal/engine/fleet
// and single commands own tasks.
package owner
