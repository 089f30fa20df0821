/** The plot library: its options are checked by looking at the plots. */
declare const echarts: any;
