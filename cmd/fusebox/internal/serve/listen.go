package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// listen binds an address. The setting and the flag that sets it are for the error.
func listen(ctx context.Context, setting, flag string, a config.Address) (net.Listener, error) {
	network, address := a.Network()
	l, err := new(net.ListenConfig).Listen(ctx, network, address)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(ctx, address); err == nil {
			l, err = new(net.ListenConfig).Listen(ctx, network, address)
		}
	}
	if err == nil {
		return l, nil
	}
	cause := err
	var op *net.OpError
	if errors.As(err, &op) {
		cause = op.Err // the rest of it would repeat the address
	}
	err = fmt.Errorf("%s: cannot listen on %s: %w", setting, a, cause)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; stop what listens there, or choose another address with %s", err, flag)
	}
	return nil, err
}

// removeStale removes a socket that a program has left behind, and nothing else.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is something else of this name, which is no socket")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // such as a full queue, or no permission: somebody may be there
		return fmt.Errorf("%w: %w", syscall.EADDRINUSE, err)
	}
	return os.Remove(path)
}

// shield takes a socket away from those who are neither its owner nor in its
// group: who reaches the admin socket may write.
func shield(l net.Listener) error {
	if l.Addr().Network() != "unix" {
		return nil
	}
	path := l.Addr().String()
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&^0o007)
}
