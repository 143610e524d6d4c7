package awsapi

import (
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/define/catalog"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/pkg/taskdef"
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
	return identityAnswer{ARN: caller(), UserID: "AIDAPODTASK", Account: arn.Account(), RequestID: requestID()}
}

// roleDoc is a role in the answer of iam GetRole.
type roleDoc struct {
	Path       string
	RoleName   string
	RoleID     string `xml:"RoleId"`
	ARN        string `xml:"Arn"`
	CreateDate string
	Policy     string `xml:"AssumeRolePolicyDocument"` // percent-encoded
}

type roleAnswer struct {
	XMLName   xml.Name `xml:"https://iam.amazonaws.com/doc/2010-05-08/ GetRoleResponse"`
	Role      roleDoc  `xml:"GetRoleResult>Role"`
	RequestID string   `xml:"ResponseMetadata>RequestId"`
}

// trustOfTasks lets tasks have a role, which is all that is known of one here.
const trustOfTasks = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ecs-tasks.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// role describes a role that a registered task definition names: there is no IAM here.
func (d *definitions) role(name string) (any, error) {
	all, err := d.catalog.List()
	if len(all) == 0 && err != nil {
		return nil, err
	}
	for _, r := range all {
		for _, role := range d.roles(r) {
			path, own := splitRole(role)
			if own != name {
				continue
			}
			sum := sha256.Sum256([]byte(role))
			return roleAnswer{RequestID: requestID(), Role: roleDoc{
				Path: path, RoleName: own, RoleID: fmt.Sprintf("AROA%X", sum[:8]), ARN: role,
				CreateDate: r.RegisteredAt.UTC().Format(time.RFC3339), Policy: url.QueryEscape(trustOfTasks),
			}}, nil
		}
	}
	return nil, protocol.Failf("NoSuchEntity", "The role with name %s cannot be found: podtask knows the roles that registered task definitions name", protocol.Shortened(name))
}

// roles are the ARNs of the roles of a revision.
func (d *definitions) roles(r catalog.Revision) (all []string) {
	_, source, err := d.catalog.Find(catalog.Ref{Family: r.Family, Revision: r.Revision})
	if err != nil {
		return nil
	}
	data, err := taskdef.ToJSON(r.File, source)
	var names struct {
		Task      string `json:"taskRoleArn"`
		Execution string `json:"executionRoleArn"`
	}
	if err != nil || json.Unmarshal(data, &names) != nil {
		return nil // what cannot be read, and a Kubernetes manifest, names none
	}
	for _, role := range []string{names.Execution, names.Task} {
		if role != "" && !strings.HasPrefix(role, "arn:") { // a name of this account, as ECS takes it
			role = arn.Of("iam", "role/"+role)
		}
		if role != "" {
			all = append(all, role)
		}
	}
	return all
}

// splitRole returns the path and the name of a role's ARN.
func splitRole(role string) (path, name string) {
	_, rest, _ := strings.Cut(role, ":role/")
	i := strings.LastIndexByte(rest, '/')
	return "/" + rest[:i+1], rest[i+1:]
}
