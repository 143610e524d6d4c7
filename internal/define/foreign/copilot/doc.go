// Package copilot reads manifests of AWS Copilot, with the settings of an environment and its overrides of task definitions.
package copilot
