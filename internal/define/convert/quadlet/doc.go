// Package quadlet converts the Quadlet files of one pod.
package quadlet
