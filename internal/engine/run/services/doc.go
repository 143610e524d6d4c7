// Package services runs the services of an agent: one loop and one record for each. What a
// service does next internal/engine/decide/driver and pkg/service decide; its tasks belong to a fleet. It
// also keeps the listeners of a service, and says which copies internal/forward sends
// connections to.
package services
