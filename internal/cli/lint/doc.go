// Package lint writes what is wrong with files in the forms that code hosts read: workflow
// commands of GitHub Actions, and SARIF 2.1.0.
//
// The validate command fills the findings. The package checks nothing itself and reads no
// file.
package lint
