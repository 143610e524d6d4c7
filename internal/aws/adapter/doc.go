// Package adapter connects the ECS API to an agent: it implements the interfaces that awsapi
// declares with the agent's backends, and converts their errors to exceptions of ECS.
package adapter
