// Package inject is the part that injects faults into the network of tasks: the command fault. Tasks inject faults
// themselves through their metadata endpoint, which is of the core.
package inject
