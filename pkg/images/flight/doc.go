// Package flight lets concurrent callers with the same request share its execution.
// pkg/images and internal/engine use it for registry requests and pulls. Unlike
// x/sync/singleflight, it cancels work that no caller waits for, and canceling one
// caller does not affect the others. It caches no results.
package flight
