// Package rollback remembers with which image digests a unit was ready and with which it
// failed, so that a unit with automatic updates can go back to images that worked. The
// supervisor of a unit and the command auto-update call it. It owns the files under
// updates/ in the state directory; it never asks a registry or restarts anything.
package rollback
