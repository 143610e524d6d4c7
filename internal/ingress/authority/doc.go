// Package authority is the internal certificate authority of a user: it issues certificates for names
// that no public authority certifies. Only clients that trust it accept them. The ingress proxy issues;
// `podtask ingress trust` shows and exports the authority's own certificate.
package authority
