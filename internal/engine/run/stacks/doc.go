// Package stacks carries out changes of stacks: it keeps their records, which package stack of internal/engine/decide reads and writes,
// and asks the agent for one step after the other. The record is saved before and after each step. Nothing here belongs to the agent: the
// process of a command holds the lock of a stack while it changes it, and the next process continues what it did not end.
package stacks
