// Package calendar converts the expressions of EventBridge and cron into calendar events of systemd.time(7). What
// systemd cannot express is an error that names it.
package calendar
