package serve

import (
	"context"
	"log/slog"
	"net"
	"os"
	"time"
)

// notify tells the service manager how the program is, if it asks to be told, as
// sd_notify(3) says: a datagram to the socket that NOTIFY_SOCKET names.
func notify(log *slog.Logger, state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", socket)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, err = conn.Write([]byte(state))
		_ = conn.Close()
	}
	if err != nil {
		log.Warn("the service manager cannot be told", "state", state, "error", err)
	}
}
