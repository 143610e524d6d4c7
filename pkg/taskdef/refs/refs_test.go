package refs

import (
	"strings"
	"testing"
)

const secretARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:shop/db-AbCdEf"

func TestFirstRuleThatMatchesAnswers(t *testing.T) {
	t.Parallel()
	table := Table{
		{Match: secretARN, Stage: "AWSPREVIOUS", Source: "env:OLD"},
		{Match: secretARN + ":user::", Source: "env:USER"},
		{Match: "arn:aws:secretsmanager:*:secret:shop/*-??????", Source: "podman:shop-{2}"},
		{Match: "/web/*", Source: "tree:/srv/aws"},
		{Match: "arn:aws:s3:::*", Source: "tree:/srv/aws"},
		{Match: "efs:fs-1/*", Source: "file:/srv/efs/{1}"},
		{Match: "volume:data", Source: "file:/srv/data"},
		{Match: "plugin:*", Source: "podman:{1}"},
		{Match: "nfs:*", Source: "tree:/mnt"},
	}
	for _, tt := range []struct {
		name string
		ref  Reference
		want string
	}{
		{"a captured name", OfSecret(secretARN, secretARN, "", ""), "podman:shop-db"},
		{"a stage", OfSecret(secretARN, secretARN+"::AWSPREVIOUS:", "AWSPREVIOUS", ""), "env:OLD"},
		{"the current stage is not the previous", OfSecret(secretARN, secretARN+"::AWSCURRENT:", "AWSCURRENT", ""), "podman:shop-db"},
		// The rule of the whole reference is in front of the one of the ARN.
		{"a whole reference", OfSecret(secretARN, secretARN+":user::", "", ""), "whole env:USER"},
		{"a parameter by name", OfSecret("/web/token", "/web/token", "", ""), "tree:/srv/aws:ssm/web/token"},
		{"a parameter by ARN", OfSecret("arn:aws:ssm:r:1:parameter/a/b", "arn:aws:ssm:r:1:parameter/a/b", "", ""), ""},
		{"an object", OfObject("arn:aws:s3:::bucket/a/b:c.env"), "tree:/srv/aws:s3/bucket/a/b:c.env"},
		{"a file system", OfVolume("files", "efs:fs-1/shop"), "file:/srv/efs/shop"},
		{"another file system", OfVolume("files", "efs:fs-2/shop"), ""},
		{"a volume by name", OfVolume("data", "efs:fs-2/shop"), "file:/srv/data"},
		{"a volume of a plug-in", OfVolume("x", "plugin:rexray-data"), "podman:rexray-data"},
		{"a share", OfVolume("x", "nfs:server:/export"), "tree:/mnt:nfs/server/export"},
	} {
		got, ok := table.Find(tt.ref)
		text := got.Source
		if got.Whole {
			text = "whole " + text
		}
		if text != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, want %q", tt.name, text, tt.want)
		}
	}
}

func TestPlaceStaysBelowItsDirectory(t *testing.T) {
	t.Parallel()
	for _, r := range []Reference{
		OfSecret("/../../etc/shadow", "/../../etc/shadow", "", ""), OfObject("arn:aws:s3:::b/../../../x.env"), OfVolume("v", "efs:fs-1/../../x"),
	} {
		if strings.Contains(r.Place, "..") {
			t.Errorf("%s is at %s", r.Name(), r.Place)
		}
	}
	if got := OfSecret(secretARN, secretARN+"::AWSPREVIOUS:7", "AWSPREVIOUS", "7").Place; got != "secretsmanager/shop/db-AbCdEf@AWSPREVIOUS@7" {
		t.Errorf("the previous version is at %s", got)
	}
}

func TestSplitTree(t *testing.T) {
	t.Parallel()
	if root, place, ok := SplitTree("tree:/srv/aws:s3/b/k:1"); root != "/srv/aws" || place != "s3/b/k:1" || !ok {
		t.Error(root, place, ok)
	}
	for _, text := range []string{"file:/x", "tree:/x", "tree:x:y", "tree:/x:"} {
		if _, _, ok := SplitTree(text); ok {
			t.Errorf("%s is a place in a tree", text)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("arn:*:secret:*", "file:/x/{1}", secretARN)
	f.Add("?*", "tree:/x", "\xff")
	f.Fuzz(func(t *testing.T, pattern, source, name string) {
		table := Table{{Match: pattern, Source: source}, {Match: "*", Source: "env:LAST"}}
		if _, ok := table.Find(OfSecret(name, name, "", "")); !ok {
			t.Errorf("nothing answers %q", name)
		}
		if OfSecret(name, name, "", "").Place == "" {
			t.Errorf("%q has no place", name)
		}
	})
}

func TestTheSourceOfAWSIsTheNameThatMatched(t *testing.T) {
	t.Parallel()
	const id = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:db-AbCdEf"
	table := Table{
		{Match: "/shop/*", Source: "aws:arn:aws:ssm:us-east-1:1:parameter/other/{1}"},
		{Match: "*", Source: "aws:"},
	}
	for whole, want := range map[string]string{id: "aws:" + id, id + ":password::": "aws:" + id, "/shop/token": "aws:arn:aws:ssm:us-east-1:1:parameter/other/token"} {
		name := whole
		if len(whole) > len(id) {
			name = id
		}
		if got, ok := table.Find(OfSecret(name, whole, "", "")); !ok || got.Source != want || got.Whole {
			t.Errorf("%s: %+v, want %s", whole, got, want)
		}
	}
}
