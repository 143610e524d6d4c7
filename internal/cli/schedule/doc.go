// Package schedule has the commands of `podtask schedule`: tasks that run at set times. Systemd's user manager
// wakes them with a timer and a service for each schedule; what is due, the record decides.
package schedule
