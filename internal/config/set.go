package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/podtask/podtask/internal/host/gpu"
	"github.com/podtask/podtask/pkg/admission"
	"github.com/podtask/podtask/pkg/lifecycle"
	"github.com/podtask/podtask/pkg/taskdef"
)

// The functions below parse a value into its field. Their errors say what the value must
// be and do not name the key.

func text[T ~string](field func(*Settings) *T) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		*field(s) = T(v)
		return nil
	}
}

// boolean is for keys whose Values are the two words.
func boolean(yes string, field func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		*field(s) = v == yes
		return nil
	}
}

func duration(field func(*Settings) *time.Duration) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("must be a duration such as 90s, 30m or 168h, not %q", v)
		}
		*field(s) = d
		return nil
	}
}

func count(field func(*Settings) *int) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("must be a number from 1 to %d, not %q", math.MaxUint16, v)
		}
		*field(s) = int(n)
		return nil
	}
}

// optional parses an amount that has no default.
func optional(parse func(string) (int64, error), field func(*Settings) **int64) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		if v == "" {
			*field(s) = nil
			return nil
		}
		n, err := parse(v)
		if err != nil {
			return err
		}
		*field(s) = &n
		return nil
	}
}

func parseContainers(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a number of containers of at least 1, not %q", v)
	}
	return n, nil
}

func setPreviews(s *Settings, v string) (err error) {
	if s.Stacks.Previews, err = strconv.Atoi(v); err != nil || s.Stacks.Previews < 0 {
		return fmt.Errorf("must be a number of previews, 0 for none, not %q", v)
	}
	return nil
}

func setReservedMemory(s *Settings, v string) error {
	if v == "" {
		s.Budget.ReservedMemory = 0
		return nil
	}
	n, err := admission.ParseMemory(v)
	if err == nil && n == admission.Unlimited {
		err = errors.New("must be an amount such as 512m, not none")
	}
	if err != nil {
		return err
	}
	s.Budget.ReservedMemory = n
	return nil
}

func setReservedPorts(s *Settings, v string) error {
	ports, err := admission.ParsePorts(v)
	if err != nil {
		return err
	}
	s.Budget.ReservedPorts = ports
	return nil
}

func setOvertake(s *Settings, v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return fmt.Errorf("must be a number of tasks from 0 to %d, not %q", math.MaxUint16, v)
	}
	s.Budget.Overtake = int(n)
	return nil
}

// setCPUPeriod: the ECS agent has the same minimum.
func setCPUPeriod(s *Settings, v string) error {
	d, err := time.ParseDuration(v)
	if err != nil || d < 8*time.Millisecond || d > time.Second || d%time.Microsecond != 0 {
		return fmt.Errorf("must be a duration from 8ms to 1s, not %q", v)
	}
	s.Tasks.Quota.CPUPeriod = d
	return nil
}

// rules parses rules of updates; the empty value has none.
func rules[T any](parse func(string) ([]T, error), field func(*Settings) *[]T) func(*Settings, string) error {
	return func(s *Settings, v string) (err error) {
		*field(s) = nil
		if v != "" {
			*field(s), err = parse(v)
		}
		return err
	}
}

func setPIDsLimit(s *Settings, v string) error {
	if v == "" {
		s.Tasks.Quota.TasksMax = 0
		return nil
	}
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return fmt.Errorf("must be a number of processes, or 0 for no limit, not %q", v)
	}
	if n == 0 {
		n = lifecycle.Unlimited
	}
	s.Tasks.Quota.TasksMax = n
	return nil
}

func setCredentialsHelper(s *Settings, v string) error {
	s.Metadata.CredentialsHelper = strings.Fields(v)
	return nil
}

func setEndpoint(field func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		u, err := url.Parse(v)
		if v != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil) {
			return fmt.Errorf("must be a URL without a path, such as http://127.0.0.1:4566, not %q", v)
		}
		*field(s) = strings.TrimSuffix(v, "/")
		return nil
	}
}

func setImageExclude(s *Settings, v string) error {
	s.Images.Exclude = nil
	if v == "" {
		return nil
	}
	patterns := strings.Split(v, ",")
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("invalid pattern %q: close its bracket", p)
		}
	}
	s.Images.Exclude = patterns
	return nil
}

func size(field func(*Settings) *int64) func(*Settings, string) error {
	return func(s *Settings, v string) error {
		n, err := units.RAMInBytes(v)
		if err != nil || n < 0 {
			return fmt.Errorf("must be a size in bytes, or with the suffix k, m, g or t, such as 2g, not %q", v)
		}
		*field(s) = n
		return nil
	}
}

var errLoopback = errors.New("must be a loopback address with a port, such as 127.0.0.1:9464, because metrics tell what runs on this host")

func setMetricsListen(s *Settings, v string) error {
	if v != "" && !isLoopback(v) {
		return fmt.Errorf("%w; not %q", errLoopback, v)
	}
	s.Agent.MetricsListen = v
	return nil
}

func setAWSListen(s *Settings, v string) error {
	if v != "" && !isLoopback(v) {
		return fmt.Errorf("must be a loopback address with a port, such as 127.0.0.1:4580, because requests and answers are not encrypted; not %q", v)
	}
	s.Agent.AWSListen = v
	return nil
}

func setExpressDomain(s *Settings, v string) error {
	if _, err := taskdef.ParseAddress("https://app." + v); v != "" && (err != nil || strings.ContainsAny(v, "/*")) {
		return fmt.Errorf("must be a domain of DNS, such as apps.example.org, not %q", v)
	}
	s.AWS.ExpressDomain = v
	return nil
}

func setAWSAccount(s *Settings, v string) error {
	if len(v) != 12 || strings.Trim(v, "0123456789") != "" {
		return fmt.Errorf("must be an account of 12 digits, such as 123456789012, not %q", v)
	}
	s.AWS.Account = v
	return nil
}

func setARNRegion(s *Settings, v string) error {
	if v == "" || len(v) > 64 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("must be a region such as us-east-1 or local, of small letters, digits and dashes, not %q", v)
	}
	s.AWS.Region = v
	return nil
}

func isLoopback(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 && port != "0" {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// setTaskCleanupWait: the ECS agent has the same minimum.
func setTaskCleanupWait(s *Settings, v string) error {
	if v == "never" {
		s.Cleanup.TaskWait = 0
		return nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < time.Second {
		return fmt.Errorf("must be never, or a duration of at least 1s such as 90m, not %q", v)
	}
	s.Cleanup.TaskWait = d
	return nil
}

// setGPUs takes the names of CDI, VENDOR/CLASS and VENDOR/CLASS=DEVICE.
func setGPUs(s *Settings, v string) error {
	s.Budget.GPUs = nil
	if v == "none" {
		return nil
	}
	for _, name := range strings.Split(v, ",") {
		name = strings.TrimSpace(name)
		if err := gpu.CheckName(name); err != nil {
			return err
		}
		s.Budget.GPUs = append(s.Budget.GPUs, name)
	}
	return nil
}

func setWithout(s *Settings, v string) error {
	var names []string
	for _, name := range strings.Split(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if err := taskdef.CheckWithout(name); err != nil {
			return err
		}
		names = append(names, name)
	}
	s.Tasks.Without = names
	return nil
}
