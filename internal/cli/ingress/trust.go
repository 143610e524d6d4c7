package ingress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/atomicfile"
	"github.com/podtask/podtask/internal/cli/command"
	"github.com/podtask/podtask/internal/ingress/authority"
	"github.com/podtask/podtask/internal/state"
	"github.com/urfave/cli/v2"
)

// A store is where the programs of a host find the authorities that they trust.
type store struct {
	dir    string
	update []string // the command that takes new files in
}

// stores are those of Debian and its kin, Fedora and its kin, and Arch.
var stores = []store{
	{"/usr/local/share/ca-certificates", []string{"update-ca-certificates"}},
	{"/etc/pki/ca-trust/source/anchors", []string{"update-ca-trust", "extract"}},
	{"/etc/ca-certificates/trust-source/anchors", []string{"trust", "extract-compat"}},
}

// trustedName is the name of the file in a store.
const trustedName = "podtask-internal.crt"

func trustCommand(p *command.Program) *cli.Command {
	return &cli.Command{
		Name:  "trust",
		Usage: "have this host trust the certificates of the internal authority",
		Description: `Prints what it would do and what that means, then asks; --yes answers. Programs that have a
store of their own, such as Firefox, import the file of --export. Needs root for the store
of the host: as a user, it prints the commands for root.

Examples:
  podtask ingress trust --dry-run
  podtask ingress trust --export podtask-ca.crt
  curl --cacert podtask-ca.crt https://app.localhost/`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "print what would be done, and change nothing"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.StringFlag{Name: "export", Usage: "only write the certificate of the authority to `FILE`, or - for the output"},
		},
		Action: func(c *cli.Context) error {
			if err := command.NoArguments(c); err != nil {
				return err
			}
			stateDir, _, err := state.Dirs(p.Getenv)
			if stateDir == "" {
				return err
			}
			a, err := authority.Open(authority.Path(stateDir), time.Now)
			if err != nil {
				return err
			}
			switch to := c.String("export"); to {
			case "":
				return trust(c, a, p.Stdin, p.Stdout)
			case "-":
				_, err = p.Stdout.Write(a.PEM())
				return err
			default:
				return atomicfile.Write(to, a.PEM(), 0o644)
			}
		},
	}
}

// trust puts the certificate into the store of the host.
func trust(c *cli.Context, a *authority.Authority, in io.Reader, out io.Writer) error {
	var found *store
	for i, s := range stores {
		if info, err := os.Stat(s.dir); err == nil && info.IsDir() {
			found = &stores[i]
			break
		}
	}
	fmt.Fprintf(out, "Authority:    %s\nFingerprint:  SHA-256 %s\nValid until:  %s\n", a.Subject(), a.Fingerprint(), a.NotAfter().Local().Format(time.DateOnly))
	if found == nil {
		return errors.New("this host has no store of authorities that podtask knows: import the file of `podtask ingress trust --export FILE` by hand")
	}
	file := filepath.Join(found.dir, trustedName)
	if present, err := os.ReadFile(file); err == nil && bytes.Equal(present, a.PEM()) {
		fmt.Fprintf(out, "It is trusted already: %s\n", file)
		return nil
	}
	fmt.Fprintf(out, "\nThis would write the certificate to %s and run %v.\nFrom then on, all programs that use this store accept certificates that this authority issues, for any name:\nwho can read %s can pretend to be any server to this host.\n",
		file, found.update, "~/.local/state/podtask/ingress/authority.pem")
	if os.Getuid() != 0 {
		fmt.Fprintf(out, "\nIt needs root:\n  podtask ingress trust --export - | sudo tee %s > /dev/null && sudo %s\n", file, strings.Join(found.update, " "))
		return nil
	}
	if c.Bool("dry-run") {
		return nil
	}
	if !c.Bool("yes") {
		fmt.Fprint(out, "\nContinue? [y/N] ")
		var answer string
		if _, err := fmt.Fscanln(in, &answer); err != nil || answer != "y" && answer != "yes" {
			return errors.New("nothing was changed")
		}
	}
	if err := atomicfile.Write(file, a.PEM(), 0o644); err != nil {
		return err
	}
	said, err := exec.CommandContext(c.Context, found.update[0], found.update[1:]...).CombinedOutput()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%v: %w: %s", found.update, err, bytes.TrimSpace(said))
	}
	return err
}
