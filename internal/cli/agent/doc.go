// Package agent has the command that runs the agent, with its TCP listeners and what parts add to it.
package agent
