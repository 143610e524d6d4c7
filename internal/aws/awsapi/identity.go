package awsapi

import (
	"encoding/xml"

	"github.com/podtask/podtask/internal/engine/arn"
)

// identityAnswer is the answer of sts GetCallerIdentity.
type identityAnswer struct {
	XMLName   xml.Name `xml:"https://sts.amazonaws.com/doc/2011-06-15/ GetCallerIdentityResponse"`
	ARN       string   `xml:"GetCallerIdentityResult>Arn"`
	UserID    string   `xml:"GetCallerIdentityResult>UserId"`
	Account   string   `xml:"GetCallerIdentityResult>Account"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

func callerIdentity() identityAnswer {
	return identityAnswer{ARN: "arn:aws:iam::" + arn.Account + ":user/podtask", UserID: "AIDAPODTASK", Account: arn.Account, RequestID: requestID()}
}
