// Package lint writes the problems of files in formats that code hosts read: workflow commands of GitHub
// Actions, and SARIF 2.1.0. It checks nothing itself and reads no file.
package lint
