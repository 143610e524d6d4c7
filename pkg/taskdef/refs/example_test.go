package refs_test

import (
	"fmt"

	"github.com/podtask/podtask/pkg/taskdef/refs"
)

// A rule says where this host has the secrets that a definition names on AWS.
func ExampleTable_Find() {
	table := refs.Table{{Match: "arn:aws:secretsmanager:*:secret:prod/*", Source: "file:/etc/secrets/{2}"}}
	answer, found := table.Find(refs.OfSecret("arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db", "", "", ""))
	fmt.Println(answer.Source, found)
	// Output: file:/etc/secrets/db true
}
