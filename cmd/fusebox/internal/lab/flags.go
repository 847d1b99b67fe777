package lab

import (
	"fmt"
	"strconv"
	"strings"
)

// shares is a flag's list of shares, shown in per cent.
type shares []float64

// String implements pflag.Value.
func (s *shares) String() string {
	texts := make([]string, len(*s))
	for i, share := range *s {
		texts[i] = strconv.FormatFloat(100*share, 'g', 10, 64) + "%"
	}
	return strings.Join(texts, ",")
}

// Set implements pflag.Value: each share is written 5% or 0.05.
func (s *shares) Set(text string) error {
	var all shares
	for one := range strings.SplitSeq(text, ",") {
		digits, percent := strings.CutSuffix(strings.TrimSpace(one), "%")
		share, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			return fmt.Errorf("%q is no share: write 5%% or 0.05", one)
		}
		if percent {
			share /= 100
		}
		all = append(all, share)
	}
	*s = all
	return nil
}

// Type implements pflag.Value.
func (*shares) Type() string { return "shares" }
