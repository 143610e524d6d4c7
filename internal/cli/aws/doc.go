// Package aws is the part that answers clients of AWS: the API of Amazon ECS at the agent, and the commands with its
// address and key.
package aws
