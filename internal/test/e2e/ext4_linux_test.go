package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// ext4 is a file system in a file, on a loop device, that can simulate a power failure.
type ext4 struct {
	t     *testing.T
	image string
	root  string // mount point
}

// imageBytes is the size of the sparse file.
const imageBytes = 512 << 20

// ext4Prefix begins the names of the directories for images and mounts, followed by the process
// that created them.
const ext4Prefix = "floe-power-"

func newExt4(t *testing.T) *ext4 {
	t.Helper()
	needPrivileges(t, missingForExt4())
	sweepExt4(t)
	base, err := os.MkdirTemp("", fmt.Sprint(ext4Prefix, os.Getpid(), "-"))
	if err != nil {
		t.Fatal(err)
	}
	d := &ext4{t: t, image: filepath.Join(base, "image"), root: filepath.Join(base, "root")}
	t.Cleanup(func() { removeExt4(t, base) })
	if err := errors.Join(os.Mkdir(d.root, 0o700), os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, imageBytes)); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	return d
}

// needPrivileges ends a test that this process has no privileges for. On a laptop the test is
// skipped; in CI it fails.
func needPrivileges(t *testing.T, missing string) {
	t.Helper()
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("missing: %s; CI may not leave this test out", missing)
	}
	t.Skipf("missing: %s", missing)
}

// missingToMount returns what keeps this process from mounting anything, or "".
func missingToMount() string {
	const capSysAdmin = 21
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err.Error()
	}
	_, after, _ := strings.Cut(string(status), "CapEff:\t")
	line, _, _ := strings.Cut(after, "\n")
	if caps, err := strconv.ParseUint(line, 16, 64); err != nil || caps>>capSysAdmin&1 == 0 {
		return "root, or rather the right to mount (CAP_SYS_ADMIN)"
	}
	return ""
}

// missingForExt4 returns what keeps this process from mounting a file, or "".
func missingForExt4() string {
	if missing := missingToMount(); missing != "" {
		return missing
	}
	if f, err := os.Open("/dev/loop-control"); err != nil {
		return "loop devices: " + err.Error()
	} else if err := f.Close(); err != nil {
		return err.Error()
	}
	for _, program := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			return err.Error()
		}
	}
	return ""
}

// sweepExt4 removes the remains of killed processes.
func sweepExt4(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), ext4Prefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, base := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(base), ext4Prefix), "-")
		pid, err := strconv.Atoi(owner)
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			t.Logf("removing %s, which a killed process has left", base)
			removeExt4(t, base)
		}
	}
}

// removeExt4 unmounts all mounts, which ends the loop device, and removes the image.
func removeExt4(t *testing.T, base string) {
	t.Helper()
	root := filepath.Join(base, "root")
	if err := syscall.Unmount(root, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		t.Errorf("unmount %s: %v; leaving it to the kernel", root, err)
		if err := syscall.Unmount(root, syscall.MNT_DETACH); err != nil {
			t.Fatalf("detach %s: %v", root, err)
		}
	}
	if err := os.RemoveAll(base); err != nil {
		t.Error(err)
	}
}

func (d *ext4) run(program string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func (d *ext4) mount() {
	d.t.Helper()
	d.run("mount", "-o", "loop", d.image, d.root)
}

// cut makes the file system lose all data that has not reached its disk, like a power failure, and
// remounts it. No process may be using it: a process that wrote while the kernel shut it down has
// seen syncs succeed that were not carried out.
func (d *ext4) cut() (really bool) {
	d.t.Helper()
	canary := filepath.Join(d.root, "canary")
	if err := os.WriteFile(canary, []byte("nobody syncs this"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	f, err := os.Open(d.root)
	if err != nil {
		d.t.Fatal(err)
	}
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	how := uint32(noLogFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how)))
	if err := f.Close(); errno != 0 || err != nil {
		d.t.Fatalf("shut down %s: %v, %v", d.root, errno, err)
	}
	if err := syscall.Unmount(d.root, 0); err != nil {
		d.t.Fatalf("unmount %s: %v", d.root, err)
	}
	d.mount()
	_, err = os.Stat(canary)
	if err == nil {
		err = os.Remove(canary)
		really = false
	} else if errors.Is(err, os.ErrNotExist) {
		err, really = nil, true
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return really
}
