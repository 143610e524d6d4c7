// Package certs has the certificates of the ingress proxy: those of an ACME authority, which it
// obtains and renews, those of files, which it follows, and those of an authority of its own, which
// only who trusts it accepts. One Manager serves all names of the routes.
package certs
