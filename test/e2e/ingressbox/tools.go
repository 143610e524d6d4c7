//go:build tools

package ingressbox

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl" // the test builds it
