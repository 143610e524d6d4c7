// Package autoscaling answers the operations of Application Auto Scaling for the desired counts of services.
package autoscaling
