package awsvalues

import "testing"

func TestTargets(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]target{
		"arn:aws:ssm:eu-west-1:111122223333:parameter/shop/token": {"ssm", "eu-west-1", "arn:aws:ssm:eu-west-1:111122223333:parameter/shop/token", ""},
		"/shop/token": {"ssm", "us-east-1", "/shop/token", ""},
		"arn:aws:secretsmanager:eu-west-1:111122223333:secret:db-AbCdEf": {"secretsmanager", "eu-west-1", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:db-AbCdEf", ""},
		"arn:aws:s3:::shop/env/web.env":                                  {"s3", "us-east-1", "shop", "env/web.env"},
		"arn:aws-cn:s3:::shop/a":                                         {"s3", "us-east-1", "shop", "a"},
	} {
		if got, err := targetOf(name, "us-east-1"); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"arn:aws:s3:::shop", "arn:aws:s3:::shop/", "arn:aws:kms:eu-west-1:1:key/a", "arn:", "arn:aws:ssm"} {
		if got, err := targetOf(name, "us-east-1"); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got, err := targetOf("/shop/token", ""); err == nil {
		t.Errorf("without a region: %+v", got)
	}
}
