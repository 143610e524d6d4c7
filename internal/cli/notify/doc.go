// Package notify is the part that tells people what needs them: the command notify, and what the agent does for it.
package notify
