// Package gpu finds the GPUs of this host: devices that CDI specification files describe, as
// vendors' tools such as nvidia-ctk write them. The queue calls it to know what tasks share, and
// the configuration to check names. It opens no device, and never decides who gets one.
package gpu
