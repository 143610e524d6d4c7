package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podtask/podtask/internal/aws/instance"
	"github.com/podtask/podtask/internal/aws/instance/awscall"
	"github.com/podtask/podtask/internal/aws/instance/wire"
)

// finding is what one check found.
type finding struct {
	Check string `json:"check"`
	// OK: it is as it must be. Skipped: it could not be tried.
	OK      bool   `json:"ok"`
	Skipped bool   `json:"skipped,omitempty"`
	Answer  string `json:"answer"`
}

// checker collects findings.
type checker struct {
	findings []finding
	failed   bool
}

func (c *checker) add(name string, err error, answer string) {
	f := finding{Check: name, OK: err == nil, Answer: answer}
	if err != nil {
		f.Answer, c.failed = err.Error(), true
	}
	c.findings = append(c.findings, f)
}

func (c *checker) skip(name, why string) {
	c.findings = append(c.findings, finding{Check: name, Skipped: true, Answer: why})
}

// check asks for what the program needs, and changes nothing on AWS.
func check(ctx context.Context, o *options, stdout, _ io.Writer) error {
	var c checker
	c.run(ctx, o)
	if o.format == "json" {
		text, err := json.MarshalIndent(c.findings, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, string(text))
	} else {
		t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		for _, f := range c.findings {
			word := "ok"
			if f.Skipped {
				word = "skipped"
			} else if !f.OK {
				word = "FAILED"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", word, f.Check, f.Answer)
		}
		_ = t.Flush()
	}
	if c.failed {
		return errPrinted
	}
	return nil
}

func (c *checker) run(ctx context.Context, o *options) {
	dir, _, err := o.dirs()
	var id instance.Identity
	if err == nil {
		var records *instance.Records
		if records, err = instance.OpenRecords(dir); err == nil {
			id, err = records.Identity()
		}
	}
	c.add("records", err, dir)
	if o.region == "" {
		o.region = id.Region
	}
	config, err := o.config(o.log(io.Discard))
	c.add("configuration", err, fmt.Sprintf("cluster %s, region %s, %d cpu units, %d MiB", first(o.cluster, "default"), o.region, config.Host.CPU, config.Host.Memory))
	if err != nil {
		return
	}
	v, err := config.Agent.Version(ctx)
	c.add("agent", err, "version "+v.Version)
	if err == nil && !config.Host.Limits {
		c.skip("limits of tasks", "this host cannot apply them, or `limits` is off, so ECS is not told of task-cpu-mem-limit; `podtask doctor` says why")
	}
	calls := config.Calls
	c.reach(ctx, calls)
	if _, err := calls.Credentials(ctx); err != nil {
		c.add("credentials", err, "")
		return
	}
	h, found, err := o.hybrid(calls)
	switch {
	case err != nil:
		c.add("credentials", err, "")
		return
	case found:
		c.add("credentials", nil, "of the activation: "+h.ID())
	default:
		c.add("credentials", nil, "found")
	}
	c.caller(ctx, calls)
	cluster := first(o.cluster, id.Cluster, "default")
	c.cluster(ctx, calls, cluster)
	if id.ARN != "" {
		c.instance(ctx, calls, id)
	}
	// It is permitted to whoever may be an instance, and takes no instance.
	var endpoints wire.Endpoints
	err = calls.Call(ctx, awscall.ECS, "DiscoverPollEndpoint", wire.Discover{Cluster: cluster, InstanceARN: id.ARN}, &endpoints)
	c.add("DiscoverPollEndpoint", err, endpoints.ACS)
	for _, name := range []string{"ACS", "TCS"} {
		if id.ARN == "" {
			c.skip(name, "this host is not registered: `podtask ecs join` does that")
		} else {
			c.skip(name, "a second connection would end that of `podtask ecs join`: `podtask ecs status` shows them")
		}
	}
}

// cluster checks that the cluster is there, where that may be asked.
func (c *checker) cluster(ctx context.Context, calls *awscall.Client, cluster string) {
	var clusters struct {
		Clusters []struct {
			Status string `json:"status"`
		} `json:"clusters"`
	}
	err := calls.Call(ctx, awscall.ECS, "DescribeClusters", map[string]any{"clusters": []string{cluster}}, &clusters)
	switch {
	case err == nil && len(clusters.Clusters) == 0:
		c.add("DescribeClusters", errors.New("there is no cluster "+cluster), "")
	case awscall.CodeOf(err) == "AccessDeniedException":
		c.skip("DescribeClusters", "not permitted, and not needed: "+err.Error())
	case err != nil:
		c.add("DescribeClusters", err, "")
	default:
		c.add("DescribeClusters", nil, "the cluster is "+clusters.Clusters[0].Status)
	}
}

// services lists the services that an instance calls, each with its purpose.
var services = []struct{ name, why string }{
	{"ecs", ""},
	{"sts", "`podtask ecs check` alone asks it"},
	{"ssm", "activations and secrets of Parameter Store need it"},
	{"secretsmanager", "secrets of Secrets Manager need it"},
	{"s3", "files with variables need it"},
	{"ecr", "images on ECR need it"},
}

// reach tries to connect to each service, and compares the clock of this host with theirs.
func (c *checker) reach(ctx context.Context, calls *awscall.Client) {
	var ahead time.Duration
	seen := false
	for _, s := range services {
		address, offset, err := calls.Reach(ctx, s.name)
		switch {
		case err != nil && s.why != "":
			c.skip("reach "+s.name, fmt.Sprintf("%s cannot be reached, and only %s: %v", address, s.why, err))
		case err != nil:
			c.add("reach "+s.name, fmt.Errorf("%s: %w", address, err), "")
		default:
			c.add("reach "+s.name, nil, address)
			if !seen {
				ahead, seen = offset, true
			}
		}
	}
	switch {
	case !seen:
	case ahead.Abs() > time.Minute:
		c.add("clock", nil, fmt.Sprintf("that of AWS is %s ahead of this host's; signatures have the time of AWS, but set the clock: credentials end by it", ahead))
	default:
		c.add("clock", nil, "as that of AWS")
	}
}

// caller shows whom AWS takes the credentials for.
func (c *checker) caller(ctx context.Context, calls *awscall.Client) {
	who, err := calls.Caller(ctx)
	if err != nil {
		if awscall.Refused(err) {
			c.add("GetCallerIdentity", err, "")
		} else {
			c.skip("GetCallerIdentity", err.Error())
		}
		return
	}
	text := "account " + who.Account + ", " + who.ARN
	if !strings.Contains(who.ARN, ":assumed-role/") || !strings.Contains(who.ARN, "/mi-") {
		text += ": not the session of an activation (mi-...); whether ECS registers an external instance for it is not known"
	}
	c.add("GetCallerIdentity", nil, text)
}

// instance checks what only a registered instance can ask for.
func (c *checker) instance(ctx context.Context, calls *awscall.Client, id instance.Identity) {
	var described wire.UpdatedState
	err := calls.Call(ctx, awscall.ECS, "DescribeContainerInstances", wire.DescribeInstances{Cluster: id.Cluster, Instances: []string{id.ARN}}, &described)
	switch {
	case awscall.CodeOf(err) == "AccessDeniedException":
		c.skip("DescribeContainerInstances", "not permitted, and not needed: "+err.Error())
	case err == nil && len(described.Instances) == 0:
		c.add("DescribeContainerInstances", errors.New("ECS does not know "+id.ARN), "")
	case err != nil:
		c.add("DescribeContainerInstances", err, "")
	default:
		i := described.Instances[0]
		c.add("DescribeContainerInstances", nil, fmt.Sprintf("%s, agentConnected %t, %d tasks run, %d wait", i.Status, i.AgentConnected, i.Running, i.Pending))
	}
}
