package ingress

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/config"
	"github.com/podtask/podtask/internal/ingress"
	"github.com/podtask/podtask/internal/ingress/accesslog"
	"github.com/podtask/podtask/internal/ingress/routefile"
	"github.com/podtask/podtask/internal/state"
	"github.com/podtask/podtask/internal/term"
	"github.com/urfave/cli/v2"
)

// Command is `podtask ingress`.
func Command(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "ingress",
		Usage: "serve HTTPS addresses of services, and show what is served",
		Description: `The ingress proxy answers requests from the network with those of the healthy copies of
services. It is a process of its own, without access to Podman. A service has addresses by
--ingress or by x-podtask.ingress of its task definition. See docs/online.md.

Examples:
  podtask ingress serve --http :8080 --https :8443
  podtask service create web web.yaml --ingress https://app.example.org=web:80
  podtask ingress status
  podtask ingress ls --format json
  podtask ingress logs --tail 20
  podtask ingress trust --dry-run`,
		Subcommands: []*cli.Command{serveCommand(p), statusCommand(p), listCommand(p), logsCommand(p), trustCommand(p)},
	}
}

// serveFlags are the flags of the proxy's program.
func serveFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "http", Usage: "listen for requests without TLS on `ADDRESS`; none for nowhere", DefaultText: ":80"},
		&cli.StringFlag{Name: "https", Usage: "listen for requests with TLS on `ADDRESS`; none for nowhere", DefaultText: ":443"},
		&cli.StringFlag{Name: "acme-email", Usage: "`ADDRESS` to which the certificate authority writes"},
		&cli.StringFlag{Name: "acme-directory", Usage: "`URL` of the directory of the ACME server", DefaultText: "Let's Encrypt"},
		&cli.StringFlag{Name: "acme-dns-program", Usage: "prove names by DNS records that `PROGRAM`, with arguments, makes"},
		&cli.StringFlag{Name: "acme-roots", Usage: "`FILE` with the authorities that the ACME server's own certificate may be of", DefaultText: "those of the host"},
		&cli.DurationFlag{Name: "drain", Usage: "let requests finish for `TIME` after SIGTERM", DefaultText: "30s"},
		&cli.IntFlag{Name: "max-connections", Usage: "keep at most `NUMBER` connections open", DefaultText: "16384, or a third of the descriptors"},
		&cli.BoolFlag{Name: "debug", Usage: "log more"},
	}
}

func serveCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "run the ingress proxy until stopped",
		Description: `Executes the program podtask-ingress, which is installed beside podtask. It follows the routes
that the agent writes, and needs no agent to start. Sockets may be passed by systemd.

SIGTERM and SIGINT end it when its requests have finished. SIGHUP replaces it with a new process, of
the installed version, which takes over the listeners; the old process finishes its requests.
Certificates of public names are obtained from Let's Encrypt: to use it is to agree to its
terms.

Examples:
  podtask ingress serve --http :8080 --https :8443
  podtask ingress serve --acme-email admin@example.org`,
		Flags: serveFlags(),
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			table, err := config.Ingress(config.Source{Getenv: p.Getenv})
			if err != nil {
				return err
			}
			return p.Execute(ingress.Program, serveArguments(c, table)...)
		},
	}
}

// serveArguments are the flags that were given, and those that the table [ingress] has instead. The program
// checks their values.
func serveArguments(c *cli.Context, table map[string]config.ProgramValue) (args []string) {
	for _, name := range config.IngressKeys() {
		if c.IsSet(name) {
			args = append(args, fmt.Sprintf("--%s=%v", name, c.Value(name)))
		} else if v, has := table[name]; has {
			args = append(args, "--"+name+"="+v.Text)
		}
	}
	if c.Bool("debug") {
		args = append(args, "--debug")
	}
	return args
}

// getTimeout limits a question to the proxy.
const getTimeout = 10 * time.Second

// status asks the proxy; nil if it does not run.
func status(ctx context.Context, getenv func(string) string) (*ingress.Status, error) {
	_, runtimeDir, err := state.Dirs(getenv)
	if runtimeDir == "" {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	return ingress.Ask(ctx, ingress.SocketPath(runtimeDir))
}

func statusCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "status",
		Usage: "show whether the ingress proxy runs, where it listens, and what is wrong",
		Description: `The exit code is 1 if the proxy does not run, or if an address or a certificate has a problem.

Examples:
  podtask ingress status
  podtask ingress status --format json`,
		Flags: []cli.Flag{command.FormatFlag(command.ItemFormats)},
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			s, err := status(c.Context, p.Getenv)
			if err != nil {
				return err
			}
			if s == nil {
				return errors.New(ingress.NotRunning())
			}
			o, err := thisNetwork().look(c.Context, *s)
			if err != nil {
				return err
			}
			item := struct {
				ingress.Status
				// Outside says what keeps clients on other hosts from reaching the proxy.
				Outside outside `json:"outside"`
			}{*s, o}
			if err := command.PrintItem(p.Stdout, c, item, func() error { return printStatus(p.Stdout, *s, o) }); err != nil {
				return err
			}
			if len(s.Problems()) > 0 {
				return command.ExitStatus(1)
			}
			return nil
		},
	}
}

func printStatus(w io.Writer, s ingress.Status, o outside) error {
	listens := func(all []string) string { return cmp.Or(strings.Join(all, ", "), "nowhere") }
	var total uint64
	for _, n := range s.Requests {
		total += n.Count
	}
	fmt.Fprintf(w, "Process:      %d since %s, version %s\n", s.PID, s.Since.Local().Format(time.DateTime), term.Line(s.Version))
	fmt.Fprintf(w, "HTTP:         %s\n", listens(s.Plain))
	fmt.Fprintf(w, "HTTPS:        %s\n", listens(s.Secure))
	fmt.Fprintf(w, "Routes:       %d\n", len(s.Routes))
	for _, l := range s.Listeners {
		if l.Problem == "" {
			fmt.Fprintf(w, "Listener:     %s for service %s\n", term.Line(l.Address), term.Line(l.Service))
		}
	}
	fmt.Fprintf(w, "Connections:  %d of at most %d\n", s.Connections, s.MaxConnections)
	fmt.Fprintf(w, "Requests:     %d have ended\n", total)
	for _, problem := range o.Unreachable {
		fmt.Fprintf(w, "Outside:      %s\n", term.Line(problem))
	}
	for _, n := range o.Names {
		fmt.Fprintf(w, "Outside:      %s: %s\n", term.Line(n.Name), term.Line(n.Problem))
	}
	if len(o.Unreachable)+len(o.Names) == 0 {
		fmt.Fprintln(w, "Outside:      nothing on this host keeps clients away; firewalls and routers before it are not seen")
	}
	for _, problem := range s.Problems() {
		if _, err := fmt.Fprintf(w, "Problem:      %s\n", term.Line(problem)); err != nil {
			return err
		}
	}
	return nil
}

// row is an address in the list.
type row struct {
	URL         string               `json:"url"`
	Service     string               `json:"service"`
	Deployments []ingress.Deployment `json:"deployments"`
	// Certificate is absent for an address without TLS, and while the proxy does not run.
	Certificate *ingress.Certificate `json:"certificate,omitempty"`
	// Problem explains why clients cannot use the address: what is wrong with its certificate, or that the proxy does not run.
	Problem string `json:"problem,omitempty"`
}

func listCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "ls",
		Usage: "list the public addresses of services",
		Description: `Lists what the proxy serves, or what it will serve when it runs.

Examples:
  podtask ingress ls
  podtask ingress ls --format json`,
		Flags: []cli.Flag{command.QuietFlag("URLs"), command.FormatFlag(command.ListFormats), command.SortFlag()},
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			rows, err := list(c.Context, p.Getenv)
			if err != nil {
				return err
			}
			return command.Listing[row]{Items: rows, ID: func(r row) string { return r.URL }, Columns: []command.Column[row]{
				{Head: "URL", Cell: func(r row) string { return r.URL }},
				{Head: "SERVICE", Cell: func(r row) string { return r.Service }},
				{Head: "COPIES", Cell: func(r row) string { return strconv.Itoa(ingress.Route{Deployments: r.Deployments}.Copies()) }},
				{Head: "WEIGHTS", Cell: weights},
				{Head: "CERTIFICATE", Cell: func(r row) string {
					if r.Certificate == nil {
						return ""
					}
					return r.Certificate.Issuer
				}},
				{Head: "EXPIRES", Cell: func(r row) string {
					if r.Certificate == nil || r.Certificate.NotAfter.IsZero() {
						return ""
					}
					return r.Certificate.NotAfter.Local().Format(time.DateOnly)
				}},
				{Head: "PROBLEM", Cell: func(r row) string { return term.Line(r.Problem) }},
			}}.Print(p.Stdout, c)
		},
	}
}

// weights are the parts of the revisions, if there are several.
func weights(r row) string {
	if len(r.Deployments) < 2 {
		return ""
	}
	var parts []string
	for _, d := range r.Deployments {
		parts = append(parts, fmt.Sprintf("%s: %.4g %%", d.ID, float64(d.Weight)/10))
	}
	return strings.Join(parts, ", ")
}

// list returns the addresses, from the proxy or else from the file of routes.
func list(ctx context.Context, getenv func(string) string) ([]row, error) {
	s, err := status(ctx, getenv)
	if err != nil {
		return nil, err
	}
	rows := []row{}
	if s != nil {
		for _, r := range s.Routes {
			line := row{URL: r.URL, Service: r.Service, Deployments: r.Deployments}
			if host, secure := strings.CutPrefix(r.URL, "https://"); secure {
				host, _, _ = strings.Cut(host, "/")
				host = strings.Trim(host, "[]")
				if i := slices.IndexFunc(s.Certificates, func(c ingress.Certificate) bool { return c.Name == host }); i >= 0 {
					line.Certificate, line.Problem = &s.Certificates[i], s.Certificates[i].Problem
				}
			}
			rows = append(rows, line)
		}
		return rows, nil
	}
	stateDir, _, err := state.Dirs(getenv)
	if stateDir == "" {
		return nil, err
	}
	t, err := routefile.Read(routefile.Path(stateDir))
	if err != nil {
		return nil, err
	}
	for _, r := range t.Routes {
		line := row{URL: r.Key(), Service: r.Service, Deployments: []ingress.Deployment{}, Problem: "the ingress proxy is not running"}
		for _, g := range r.Groups {
			d := ingress.Deployment{ID: g.Deployment, Weight: g.Weight, Copies: []ingress.Copy{}}
			for _, target := range g.Targets {
				d.Copies = append(d.Copies, ingress.Copy{Task: target.ID, Address: target.Address})
			}
			line.Deployments = append(line.Deployments, d)
		}
		rows = append(rows, line)
	}
	return rows, nil
}

func logsCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "print the access log, one JSON object a line",
		ArgsUsage: "[SERVICE]",
		Description: `The log has each request that has ended: when, from where, for which service and copy, and how
long it took. Queries of URLs and headers are not in it: they may hold secrets.

Examples:
  podtask ingress logs --tail 20
  podtask ingress logs web | jq 'select(.status >= 500)'`,
		Flags: []cli.Flag{&cli.IntFlag{Name: "tail", Aliases: []string{"n"}, Usage: "print the last `NUMBER` lines", DefaultText: "all"}},
		Action: func(c *cli.Context) error {
			if c.Args().Len() > 1 {
				return command.Usagef(command.Path(c), "%s takes one SERVICE", command.Path(c))
			}
			stateDir, _, err := state.Dirs(p.Getenv)
			if stateDir == "" {
				return err
			}
			tail := -1
			if c.IsSet("tail") {
				if tail = c.Int("tail"); tail < 0 {
					return command.Usagef(command.Path(c), "--tail is 0 or more")
				}
			}
			return printLog(p.Stdout, accesslog.Parts(ingress.AccessLogPath(stateDir)), c.Args().First(), tail)
		},
	}
}

// printLog prints the lines of a service, or all of them; tail limits their number unless it is negative.
func printLog(w io.Writer, parts []string, service string, tail int) error {
	w = term.JSON(w)
	var last []string
	for _, part := range parts {
		f, err := os.Open(part)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was just removed
		}
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var record struct {
				Service string `json:"service"`
			}
			if json.Unmarshal(lines.Bytes(), &record) != nil || service != "" && record.Service != service {
				continue
			}
			if tail >= 0 {
				if last = append(last, lines.Text()); len(last) > tail {
					last = last[1:]
				}
				continue
			}
			if _, err = fmt.Fprintln(w, lines.Text()); err != nil {
				break
			}
		}
		if err = errors.Join(err, lines.Err(), f.Close()); err != nil {
			return err
		}
	}
	for _, line := range last {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
