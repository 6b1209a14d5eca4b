package main

import (
	"context"
	"time"

	"github.com/floedb/floe/floql"
)

// revenueQuery reads what the job of revenue.yaml writes.
const revenueQuery = `revenue[1h] | window(1m) | group_by(product) | sum()`

// The size of the chart, and the number of minutes that it shows.
const (
	chartWidth  = 660
	chartHeight = 160
	minutes     = 60
)

// palette has the colours of products, in the order of their names.
var palette = []string{"#2563eb", "#f59e0b", "#10b981", "#db2777", "#7c3aed", "#64748b"}

// chart is the revenue of the last hour: a bar for each minute, stacked by product.
type chart struct {
	Query    string        `json:"query"`
	Total    cents         `json:"total"`
	Products []productSale `json:"products"`
	Bars     []bar         `json:"-"`
	Top      cents         `json:"-"` // of the highest minute
	Width    int           `json:"-"`
	Height   int           `json:"-"`
}

// productSale is the revenue of a product.
type productSale struct {
	Product string `json:"product"`
	Cents   cents  `json:"cents"`
	Color   string `json:"-"`
}

// bar is a rectangle of the chart, in pixels.
type bar struct {
	X, Y, Width, Height float64
	Color, Title        string
}

func (s *shop) revenue(ctx context.Context) (chart, error) {
	now := time.Now()
	result, err := s.db.FloQL(ctx, namespace, revenueQuery, floql.Options{Now: now})
	if err != nil {
		return chart{}, err
	}
	return draw(result, now), nil
}

// draw lays out the chart. The newest minute is at the right edge.
func draw(r *floql.Result, now time.Time) chart {
	c := chart{Query: revenueQuery, Width: chartWidth, Height: chartHeight}
	perMinute := make(map[time.Time]cents)
	for i, series := range r.Series {
		sale := productSale{Product: series.Tags[0].Value, Color: palette[i%len(palette)]}
		for _, p := range series.Points {
			sale.Cents += cents(p.Value)
			perMinute[p.Time] += cents(p.Value)
			c.Top = max(c.Top, perMinute[p.Time])
		}
		c.Total += sale.Cents
		c.Products = append(c.Products, sale)
	}
	const step = float64(chartWidth) / minutes
	clear(perMinute) // from here on, the heights of the stacks
	for i, series := range r.Series {
		for _, p := range series.Points {
			age := now.Truncate(time.Minute).Sub(p.Time).Minutes()
			perMinute[p.Time] += cents(p.Value)
			c.Bars = append(c.Bars, bar{
				X: chartWidth - (age+1)*step, Width: step - 2,
				Y: chartHeight * (1 - float64(perMinute[p.Time])/float64(c.Top)), Height: chartHeight * p.Value / float64(c.Top),
				Color: c.Products[i].Color, Title: p.Time.Format("15:04") + " " + c.Products[i].Product + " " + cents(p.Value).String(),
			})
		}
	}
	return c
}
