// Package pressure measures what a host has left of memory, disk and processes, and compares it with thresholds in the form of the kubelet's.
package pressure
