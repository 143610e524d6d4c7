package awskey_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/podtask/podtask/internal/aws/awskey"
	"github.com/podtask/podtask/internal/aws/sigv4"
)

func TestKeyIsMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	keys := make([]sigv4.Key, 20)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := awskey.Load(dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = k
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || len(k.ID) != 20 || len(k.Secret) != 40 {
			t.Errorf("%d and %d characters, the same: %v", len(k.ID), len(k.Secret), k == keys[0])
		}
	}
	info, err := os.Stat(filepath.Join(dir, "aws-key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

func TestReplacedKeyIsTheKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, err := awskey.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	made, err := awskey.Replace(dir)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := awskey.Load(dir); err != nil || now != made || now == old || now.Secret == old.Secret {
		t.Errorf("the key is the new one: %v, the old one: %v, %v", now == made, now == old, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "aws-key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

func TestFileThatIsNoKeyIsAnError(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "AKIA", "AKIAAAAAAAAAAAAAAAAA", "short short"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "aws-key"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if k, err := awskey.Load(dir); err == nil || k.Secret != "" {
			t.Errorf("%q is a key", content)
		}
	}
}
