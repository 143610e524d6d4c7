package ecs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podtask/podtask/internal/host/procgroup"
	"github.com/podtask/podtask/internal/lazy"
	"github.com/podtask/podtask/internal/term"
)

// awsCLI is the user's aws command.
type awsCLI struct {
	environ func() []string
	flags   []string // --region and others
}

// call runs a command and reads what it prints into out, unless that is nil.
func (a awsCLI) call(ctx context.Context, out any, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	path, err := exec.LookPath("aws")
	if err != nil {
		return errors.New("the aws command is not in PATH: --print prints the commands")
	}
	cmd := exec.CommandContext(ctx, path, slices.Concat(args, a.flags, []string{"--output", "json"})...)
	cmd.Env, cmd.WaitDelay = append(a.environ(), "AWS_PAGER="), time.Second
	text, err := output(cmd)
	if err != nil {
		return fmt.Errorf("aws %s: %w", strings.Join(args[:2], " "), err)
	}
	if out == nil || len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("aws %s: read the answer: %w", strings.Join(args[:2], " "), err)
	}
	return nil
}

// output runs a program; an error has what it printed to stderr. The program has a process group of its own: Ctrl-C must not end
// one that removes what the trial has made.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := procgroup.Run(cmd); err != nil {
		text := string(stderr.text)
		return nil, fmt.Errorf("%w: %s", err, term.Line(strings.Join(strings.Fields(text[:min(len(text), 8<<10)]), " ")))
	}
	return stdout.text, nil
}

// bounded keeps what is written, up to 4 MiB; more is an error. It has no ReadFrom, which io.Copy would call instead.
type bounded struct{ text []byte }

// Write implements io.Writer.
func (b *bounded) Write(text []byte) (int, error) {
	if len(b.text)+len(text) > 4<<20 {
		return 0, errors.New("it prints more than 4 MiB")
	}
	b.text = append(b.text, text...)
	return len(text), nil
}

// resource is a thing in the account that a trial makes, with the arguments of the aws commands that make and remove it. $NAME in them is a value that a
// command before has answered.
type resource struct {
	what           string
	create, remove [][]string
	// answered are the values in answers by the names of their members: a member of a member is a.b.
	answered map[string]string
}

// trust is the document of a role that a service may assume.
func trust(service string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`
}

// role is a role with a managed policy and, if there is a document, a policy of its own.
func role(name, service, policy, document string) resource {
	r := resource{
		what:   "the role " + name + ", which " + service + " may assume, with the policy " + policy[strings.LastIndexByte(policy, '/')+1:],
		create: [][]string{{"iam", "create-role", "--role-name", name, "--assume-role-policy-document", trust(service)}, {"iam", "attach-role-policy", "--role-name", name, "--policy-arn", policy}},
		remove: [][]string{{"iam", "detach-role-policy", "--role-name", name, "--policy-arn", policy}, {"iam", "delete-role", "--role-name", name}},
	}
	if document != "" {
		r.answered = map[string]string{"Role.Arn": "$EXECUTION_ROLE_ARN"}
		r.create = append(r.create, []string{"iam", "put-role-policy", "--role-name", name, "--policy-name", "secrets", "--policy-document", document})
		r.remove = append([][]string{{"iam", "delete-role-policy", "--role-name", name, "--policy-name", "secrets"}}, r.remove...)
	}
	return r
}

// partition returns the partition in the ARNs of a region.
func partition(region string) string {
	for prefix, name := range map[string]string{"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc", "us-iso-": "aws-iso", "us-isob-": "aws-iso-b", "eu-isoe-": "aws-iso-e", "us-isof-": "aws-iso-f"} {
		if strings.HasPrefix(region, prefix) {
			return name
		}
	}
	return "aws"
}

// resources lists the resources of a trial in the order of their creation; they are removed in the reverse order.
func (t *trial) resources() []resource {
	managed := "arn:" + partition(t.region) + ":iam::aws:policy/service-role/"
	secrets := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ssm:GetParameters","Resource":"arn:` + partition(t.region) + `:ssm:` + t.region + `:*:parameter/` + t.name + `*"}]}`
	return []resource{
		{
			what:   "the cluster " + t.name,
			create: [][]string{{"ecs", "create-cluster", "--cluster-name", t.name}},
			remove: [][]string{{"ecs", "delete-cluster", "--cluster", t.name}},
		}, {
			what:   "the log group " + t.name,
			create: [][]string{{"logs", "create-log-group", "--log-group-name", t.name}},
			remove: [][]string{{"logs", "delete-log-group", "--log-group-name", t.name}},
		}, {
			what:   "the parameter " + t.name + " of Parameter Store, a SecureString with a random value",
			create: [][]string{{"ssm", "put-parameter", "--cli-input-json", "file://$PARAMETER_FILE"}},
			remove: [][]string{{"ssm", "delete-parameter", "--name", t.name}},
		},
		role(t.name+"-execution", "ecs-tasks.amazonaws.com", managed+"AmazonECSTaskExecutionRolePolicy", secrets),
		role(t.name+"-instance", "ssm.amazonaws.com", managed+"AmazonEC2ContainerServiceforEC2Role", ""),
		{
			what:     "an activation of Systems Manager for one host",
			create:   [][]string{{"ssm", "create-activation", "--iam-role", t.name + "-instance", "--registration-limit", "1", "--default-instance-name", t.name}},
			remove:   [][]string{{"ssm", "delete-activation", "--activation-id", "$ACTIVATION_ID"}},
			answered: map[string]string{"ActivationId": "$ACTIVATION_ID", "ActivationCode": "$ACTIVATION_CODE"},
		},
	}
}

// printCommands prints what a person may type instead.
func (t *trial) printCommands(w io.Writer) {
	line := func(program string, args []string) {
		quoted := make([]string, len(args))
		for i, a := range args {
			if quoted[i] = a; strings.ContainsAny(a, " {\"*") {
				quoted[i] = "'" + a + "'"
			}
		}
		fmt.Fprintln(w, program+" "+strings.Join(quoted, " "))
	}
	all := t.resources()
	fmt.Fprintln(w, "# Make. $PARAMETER_FILE has "+`{"Name": "`+t.name+`", "Type": "SecureString", "Value": "..."}`+"; $NAMES are what commands answer.")
	for _, r := range all {
		for _, args := range r.create {
			line("aws", slices.Concat(args, t.aws.flags))
		}
	}
	line("podtask", []string{"ecs", "activate", "--region", t.region, "--activation-id", "$ACTIVATION_ID", "--activation-code-file", "code.txt"})
	line("podtask", []string{"ecs", "join", "--region", t.region, "--cluster", t.name})
	fmt.Fprintln(w, "\n# Remove")
	line("aws", slices.Concat([]string{"ecs", "delete-service", "--cluster", t.name, "--service", t.name, "--force"}, t.aws.flags))
	line("podtask", []string{"ecs", "leave", "--region", t.region, "--force"})
	line("aws", slices.Concat([]string{"ssm", "deregister-managed-instance", "--instance-id", "$INSTANCE_ID"}, t.aws.flags))
	for _, r := range slices.Backward(all) {
		for _, args := range r.remove {
			line("aws", slices.Concat(args, t.aws.flags))
		}
	}
}

// fill puts values in the place of their names.
func (t *trial) fill(args []string) []string {
	out := slices.Clone(args)
	for i := range out {
		for name, value := range t.known {
			out[i] = strings.ReplaceAll(out[i], name, value)
		}
	}
	return out
}

// makeAll makes the resources, and joins the cluster.
func (t *trial) makeAll(ctx context.Context) error {
	if err := os.MkdirAll(t.instance.dir, 0o700); err != nil {
		return err
	}
	if _, err := t.instance.hold(); err != nil {
		return err
	}
	file := filepath.Join(t.instance.dir, "parameter.json")
	text, _ := json.Marshal(map[string]string{"Name": t.name, "Type": "SecureString", "Value": t.secret})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	t.known["$PARAMETER_FILE"] = file
	for _, r := range t.resources() {
		fmt.Fprintln(t.out, "Making "+r.what)
		t.made = append(t.made, r)
		if err := t.keep(); err != nil { // before it is made
			return err
		}
		for _, args := range r.create {
			if err := t.create(ctx, r, args); err != nil {
				return err
			}
		}
	}
	return t.join(ctx)
}

// create runs a command that makes something. A role that was just made is not known everywhere for some seconds.
func (t *trial) create(ctx context.Context, r resource, args []string) error {
	_, err := t.until(ctx, func(ctx context.Context) (bool, string, error) {
		var answer map[string]any
		var out any
		if len(r.answered) > 0 {
			out = &answer
		}
		err := t.aws.call(ctx, out, t.fill(args)...)
		if err != nil && args[1] == "create-activation" && strings.Contains(err.Error(), "ValidationException") {
			return false, err.Error(), nil
		}
		for path, name := range r.answered {
			if text, ok := member(answer, path); ok {
				t.known[name] = text
			}
		}
		return true, "", errors.Join(err, t.keep())
	})
	return err
}

// member is a text in an answer.
func member(answer map[string]any, path string) (text string, ok bool) {
	first, rest, deeper := strings.Cut(path, ".")
	if deeper {
		inner, _ := answer[first].(map[string]any)
		return member(inner, rest)
	}
	text, ok = answer[first].(string)
	return text, ok
}

// join makes the host an instance, and waits until ECS has it.
func (t *trial) join(ctx context.Context) error {
	fmt.Fprintln(t.out, "Joining the cluster")
	text, err := t.instance.do(ctx, t.known["$ACTIVATION_CODE"], "activate", "--region", t.region, "--activation-id", t.known["$ACTIVATION_ID"])
	t.known["$INSTANCE_ID"] = managedID.FindString(string(text))
	if err = errors.Join(err, t.keep()); err != nil {
		return err
	}
	if err := t.instance.start(); err != nil {
		return err
	}
	if err := t.keep(); err != nil {
		return err
	}
	_, err = t.until(ctx, func(ctx context.Context) (bool, string, error) {
		if text, ended := t.instance.ended(); ended {
			return false, "", errors.New("podtask-ecs has ended: " + text)
		}
		var list struct{ ContainerInstanceARNs []string }
		if err := t.aws.call(ctx, &list, "ecs", "list-container-instances", "--cluster", t.name); err != nil || len(list.ContainerInstanceARNs) == 0 {
			return false, "no instance", err
		}
		var d struct {
			ContainerInstances []struct {
				AgentConnected bool
				Status         string
			}
		}
		err := t.aws.call(ctx, &d, "ecs", "describe-container-instances", "--cluster", t.name, "--container-instances", list.ContainerInstanceARNs[0])
		return len(d.ContainerInstances) == 1 && d.ContainerInstances[0].AgentConnected, fmt.Sprintf("%+v", d.ContainerInstances), err
	})
	return err
}

var managedID = lazy.MustCompile(`mi-[0-9a-f]+`)

// isMissing reports whether what was to be removed is not there.
func isMissing(err error) bool {
	for _, code := range []string{"NotFound", "NoSuchEntity", "NotActive", "InvalidActivation", "InvalidInstanceId"} {
		if strings.Contains(err.Error(), code) {
			return true
		}
	}
	return false
}

// removeAll removes what was made, in the reverse order. It returns why something may be left, with the command that removes it.
func (t *trial) removeAll(ctx context.Context) (left []error) {
	ctx, cancel := context.WithTimeout(ctx, 2*t.patience)
	defer cancel()
	remove := func(args ...string) {
		args = t.fill(args)
		_, err := t.until(ctx, func(ctx context.Context) (bool, string, error) {
			err := t.aws.call(ctx, nil, args...)
			if err != nil && strings.Contains(err.Error(), "ClusterContains") { // tasks that stop, an instance that leaves
				return false, err.Error(), nil
			}
			return true, "", err
		})
		if err != nil && !isMissing(err) {
			left = append(left, fmt.Errorf("not removed: %w; remove it with: aws %s", err, strings.Join(slices.Concat(args, t.aws.flags), " ")))
		}
	}
	if t.instance.process != nil || t.instance.left > 0 {
		remove("ecs", "delete-service", "--cluster", t.name, "--service", t.name, "--force")
		if t.instance.stop(); t.instance.left > 0 {
			t.instance.stopLeft()
		}
		if _, err := t.instance.do(ctx, "", "leave", "--region", t.region, "--force", "--socket", t.instance.socket); err != nil {
			left = append(left, fmt.Errorf("the instance did not leave its cluster: %w", err))
		}
	}
	if t.known["$INSTANCE_ID"] != "" {
		remove("ssm", "deregister-managed-instance", "--instance-id", "$INSTANCE_ID")
	}
	for _, arn := range t.definitions {
		remove("ecs", "deregister-task-definition", "--task-definition", arn)
	}
	for _, r := range slices.Backward(t.made) {
		for _, args := range r.remove {
			if filled := strings.Join(t.fill(args), " "); !strings.Contains(filled, "$") { // else it was not made
				remove(args...)
			}
		}
	}
	if len(left) == 0 {
		if err := t.instance.forget(); err != nil {
			left = append(left, err)
		}
	}
	return left
}

// running is a process with what it has printed last.
type running struct {
	cmd   *exec.Cmd
	done  chan struct{}
	lines tail
}

// tail keeps the end of what is written. One goroutine writes, and others read after its end.
type tail struct{ text []byte }

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b...)
	t.text = t.text[max(0, len(t.text)-4<<10):]
	return len(b), nil
}

func (t *tail) String() string { return string(t.text) }

func (j *joined) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, j.program, args...)
	cmd.Env, cmd.WaitDelay = j.environ, time.Second
	return cmd
}

// do runs a command of podtask-ecs to its end.
func (j *joined) do(ctx context.Context, stdin string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := j.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	text, err := output(cmd)
	if err != nil {
		return text, fmt.Errorf("podtask ecs %s: %w", args[0], err)
	}
	return text, nil
}

// start starts the instance.
func (j *joined) start() error {
	r := &running{done: make(chan struct{})}
	r.cmd = j.command(context.Background(), "join", "--region", j.region, "--cluster", j.cluster, "--socket", j.socket)
	r.cmd.Stderr = &r.lines
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C ends the trial, which then ends it
	if err := r.cmd.Start(); err != nil {
		return fmt.Errorf("podtask ecs join: %w", err)
	}
	j.process = r
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // what it printed says why it ended
	}()
	return nil
}

// ended reports whether the instance has ended, and what it printed last.
func (j *joined) ended() (text string, ended bool) {
	select {
	case <-j.process.done:
		return term.Line(strings.Join(strings.Fields(j.process.lines.String()), " ")), true
	default:
		return "", false
	}
}

func (j *joined) stop() {
	if j.process == nil {
		return
	}
	_ = j.process.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	<-j.process.done
}

// forget removes the directories of the instance.
func (j *joined) forget() error {
	err := os.RemoveAll(j.dir)
	for _, v := range j.environ {
		if dir, ok := strings.CutPrefix(v, "XDG_RUNTIME_DIR="); ok {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
