// Package ecs is the part that executes podtask-ecs, the instance of an Amazon ECS cluster.
package ecs
