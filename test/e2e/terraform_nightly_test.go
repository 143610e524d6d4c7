//go:build e2e && bed_plain && nightly

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// providersOfTerraform are directories in which Terraform's providers are kept for machines without its registry.
var providersOfTerraform = []string{"/usr/local/share/terraform/plugins", "/usr/share/terraform/plugins", "/opt/*"}

// terraform runs Terraform with the provider of AWS against the agent at an address.
type terraform struct {
	b       *box
	program string
	env     []string
}

// newTerraform skips the test on a machine without Terraform, or without the provider.
func newTerraform(b *box, address string) terraform {
	b.t.Helper()
	program, err := exec.LookPath("terraform")
	if err != nil {
		b.t.Skip(err)
	}
	const provider = "registry.terraform.io/hashicorp/aws"
	mirror := ""
	for _, dir := range providersOfTerraform {
		if found, _ := filepath.Glob(filepath.Join(dir, provider)); len(found) > 0 { // the patterns are right
			mirror = strings.TrimSuffix(found[0], "/"+provider)
		}
	}
	if mirror == "" {
		b.t.Skipf("there is no %s in %q: `terraform providers mirror` makes such a directory", provider, providersOfTerraform)
	}
	definition, err := os.ReadFile(filepath.Join("testdata", "terraform", "main.tf"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.file("main.tf", string(definition))
	settings := b.file("terraform.rc", "disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror { path = \""+mirror+"\" }\n}\n")
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + b.dir, "TF_IN_AUTOMATION=1", "TF_CLI_CONFIG_FILE=" + settings, "TF_VAR_endpoint=http://" + address, "TF_VAR_family=" + b.family, "TF_VAR_image=" + b.testbox()}
	for name, value := range awsEnv(b, address) {
		env = append(env, name+"="+value)
	}
	return terraform{b, program, env}
}

// run runs a command of Terraform, which ends with a code.
func (t terraform) run(want int, args ...string) string {
	t.b.t.Helper()
	cmd := exec.CommandContext(t.b.t.Context(), t.program, append(args, "-no-color", "-input=false")...)
	cmd.Dir, cmd.Env = t.b.dir, t.env
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != want {
		t.b.t.Fatalf("terraform %q: %v, want code %d\n%s", args, err, want, out)
	}
	return string(out)
}

// Terraform with AWS's own provider makes a cluster, a definition, a service with scaling and what belongs to them, changes them and
// removes them. Directly after that a plan is empty.
func TestTerraformDrivesTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.env = append(b.env, "PODTASK_LIMITS=off")
	address := loopback(t)
	b.agent("--aws-listen=" + address)
	tf := newTerraform(b, address)
	tf.run(0, "init")
	tf.run(0, "apply", "-auto-approve")
	tf.run(0, "plan", "-detailed-exitcode")
	changed := []string{"-var", "desired=2", "-var", "message=two"}
	if out := tf.run(0, append([]string{"apply", "-auto-approve"}, changed...)...); !strings.Contains(out, "desired = 2") {
		t.Errorf("the count that the data source has:\n%s", out)
	}
	tf.run(0, append([]string{"plan", "-detailed-exitcode"}, changed...)...)
	if s := b.service(); len(s.Deployments) != 1 || s.Deployments[0].TaskDefinition != b.family+":2" || s.DesiredCount != 2 {
		t.Errorf("the service after the second apply: %+v", s)
	}
	tf.run(0, append([]string{"destroy", "-auto-approve"}, changed...)...)
	if left := b.want(0, "service", "ls", "-q").out; left != "" {
		t.Errorf("left: %s", left)
	}
}
