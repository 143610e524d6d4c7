// Package terraform reads plans and states of Terraform, as terraform show -json prints them, and states as backends keep them.
package terraform
