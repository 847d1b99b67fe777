package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a proxy that runs.
type process struct {
	cmd   *exec.Cmd
	log   string        // path of what it writes
	ended chan struct{} // closed when it has
}

// startProcess starts a program in a folder, where its log goes too.
func startProcess(folder, program string, args, environ []string) (*process, error) {
	p := &process{log: filepath.Join(folder, "log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own
	p.cmd = exec.CommandContext(context.Background(), program, args...)
	p.cmd.Dir = folder
	p.cmd.Env = append(os.Environ(), environ...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // what it said is in the log
	}()
	return p, nil
}

// errEnded is the error of a proxy that ended before it was ready.
var errEnded = errors.New("it ended")

// ready waits until the proxy passes a call on to the upstream.
func (p *process) ready(ctx context.Context, to target) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := newClient()
	defer client.CloseIdleConnections()
	for {
		a, err := get(ctx, client, to, "/ready")
		if a.Theirs {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%w: %s", errEnded, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("no answer of the upstream through it (%w): %s", errors.Join(err, ctx.Err()), p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tail returns the end of the log.
func (p *process) tail() string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(log[max(0, len(log)-2000):]))
}

// stop ends the process, by force if it does not end when asked, and returns
// when it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// usage is what a process and those below it have used.
type usage struct {
	CPU  time.Duration // user and system, to 10 ms
	RSS  int64         // bytes now
	Peak int64         // bytes; of several processes the sum of their peaks
}

// ticksPerSecond is the unit of CPU times in /proc: the same on all Linux
// machines that Go runs on.
const ticksPerSecond = 100

// usage reads /proc. Pages that processes share count once for each.
func (p *process) usage() (sum usage, err error) {
	stats, err := readStats()
	if err != nil {
		return sum, err
	}
	own := stats[p.cmd.Process.Pid]
	if own == nil {
		return sum, fmt.Errorf("process %d has ended: %s", p.cmd.Process.Pid, p.tail())
	}
	for pid, s := range stats {
		for q := s; q != own; q = stats[q.parent] {
			if q == nil {
				s = nil
				break
			}
		}
		if s == nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
		if err != nil {
			return sum, err
		}
		sum.CPU += s.cpu
		sum.RSS += statusBytes(string(status), "VmRSS")
		sum.Peak += statusBytes(string(status), "VmHWM")
	}
	return sum, nil
}

// stat is what we need of /proc/PID/stat.
type stat struct {
	parent int
	cpu    time.Duration
}

// readStats reads the stat of every process.
func readStats() (map[int]*stat, error) {
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("CPU and memory are read from /proc, as on Linux: %w", err)
	}
	stats := make(map[int]*stat)
	for _, f := range folders {
		pid, err := strconv.Atoi(f.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", f.Name(), "stat"))
		if err != nil {
			continue // it has just ended
		}
		s, err := parseStat(string(line))
		if err != nil {
			return nil, err
		}
		stats[pid] = s
	}
	return stats, nil
}

// parseStat reads a line of /proc/PID/stat. The second field is a name in
// brackets, which may hold anything.
func parseStat(line string) (*stat, error) {
	_, rest, ok := cutLast(line, ")")
	fields := strings.Fields(rest) // the third field of the line is the first here
	if !ok || len(fields) < 13 {
		return nil, fmt.Errorf("no line of /proc/PID/stat: %q", line)
	}
	parent, err1 := strconv.Atoi(fields[1])
	user, err2 := strconv.ParseInt(fields[11], 10, 64)
	system, err3 := strconv.ParseInt(fields[12], 10, 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	return &stat{parent, time.Duration(user+system) * time.Second / ticksPerSecond}, nil
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// statusBytes returns a value of /proc/PID/status that is in kB; 0 where it is
// not there, as for a process that is ending.
func statusBytes(status, key string) int64 {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// freeAddress returns an address of the loopback interface that nobody listens
// on. Somebody else may take it before the proxy does, which then ends.
func freeAddress() (string, error) {
	l, err := listen()
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// host returns the host:port of a URL without a path.
func host(url string) string { return strings.TrimPrefix(url, "http://") }

func splitHost(address string) (name, port string) {
	name, port, _ = net.SplitHostPort(address)
	return name, port
}
