package taskdef

import (
	"strings"
	"testing"

	"github.com/podtask/podtask/pkg/taskdef/refs"
)

func TestTheSourceOfARole(t *testing.T) {
	t.Parallel()
	const shop, other = "arn:aws:iam::123456789012:role/shop", "arn:aws:iam::123456789012:role/other"
	table := refs.Table{
		{Match: "arn:aws:*", Source: "tree:/srv/aws"}, // not for roles
		{Match: "role:arn:aws:iam::*:role/s*", Source: "env:SHOP_{2}"},
		{Match: "role:*/bad", Source: "aws:"},
	}
	for _, tt := range []struct{ role, override, want string }{
		{shop, "", "env:SHOP_hop"}, {other, "", ""}, {"", "", ""}, {other, shop, "env:SHOP_hop"}, {shop, other, ""}, {"", shop, "env:SHOP_hop"},
	} {
		s := Settings{Refs: table}
		if tt.override != "" {
			var err error
			if s.Override, _, err = s.ParseOverride("o", []byte(`{"taskRoleArn": "`+tt.override+`"}`)); err != nil {
				t.Fatal(err)
			}
		}
		task, report, err := s.Parse("f", []byte(minimal(`"taskRoleArn": "`+tt.role+`",`, "")))
		if err != nil || task.Identity.TaskRoleSource != tt.want || (tt.want != "") != (len(report.References) == 1) {
			t.Errorf("%+v: %q, %v, %v", tt, task.Identity.TaskRoleSource, report.References, err)
		}
	}
	// The execution role has patterns of its own.
	const definition = `"taskRoleArn": "` + shop + `", "executionRoleArn": "` + shop + `",`
	for pattern, want := range map[string]string{"execution-role:*": "env:EXEC", "role:*/nobody": ""} {
		task, _, err := Settings{Refs: append(refs.Table{{Match: pattern, Source: "env:EXEC"}}, table...)}.Parse("f", []byte(minimal(definition, "")))
		if err != nil || task.Identity.ExecutionRoleSource != want || task.Identity.TaskRoleSource != "env:SHOP_hop" {
			t.Errorf("%s: %+v, %v", pattern, task.Identity, err)
		}
	}
	_, _, err := Settings{Refs: table}.Parse("f", []byte(minimal(`"taskRoleArn": "arn:aws:iam::1:role/bad",`, "")))
	if err == nil || !strings.Contains(err.Error(), "cannot be a role") {
		t.Errorf("%v", err)
	}
}
