// Package service has the commands for registered task definitions and for services.
package service
