//go:build !aws

package awsvalues

import "context"

// Built reports whether this program can read from AWS.
const Built = false

// Read returns ErrNotBuilt.
func (Config) Read(context.Context, Wanted) ([]byte, error) { return nil, ErrNotBuilt }
