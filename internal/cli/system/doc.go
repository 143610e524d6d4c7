// Package system has the commands about podtask itself: doctor, info, config and version.
package system
